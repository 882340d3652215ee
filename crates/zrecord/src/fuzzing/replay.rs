//! Every input that is kept, and many that are made up, through the functions that the fuzzer runs.
