"""Arrow's columns as streams, for every format that comes as Arrow: Parquet, IPC, Hugging Face datasets, Lance."""
