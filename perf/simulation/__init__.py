"""The service in simulated time: our own scheduling, with the engine and the codec replaced by what they cost."""
