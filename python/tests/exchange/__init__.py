"""Exchange with the published loaderx 1.5.7: each side reads and writes what the other wrote, bit for bit."""
