"""What the programs in perf/ share: traffic, load, the server under it, and results as files."""
