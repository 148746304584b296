"""Llama checkpoints to OpenVINO IR, with numpy and OpenVINO alone."""
