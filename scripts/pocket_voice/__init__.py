"""The recipe of the embedded voice: corpus -> speech -> codec -> codes -> language model. See README.md."""
