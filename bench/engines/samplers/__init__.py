"""The samplers that are compared."""

from engines.engine import PUBLISHED_1, PUBLISHED_2, Engine

SAMPLERS = (
    Engine("loaderx", "samplers/loaderx", role="own"),
    Engine("loaderx 1.5.7", "samplers/loaderx", requires=PUBLISHED_1),
    Engine("loaderx 2.8.19", "samplers/loaderx2", requires=PUBLISHED_2),
    Engine("numpy default_rng", "samplers/numpy_rng"),
)
