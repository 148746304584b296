"""Llama checkpoints to OpenVINO IR, with numpy and OpenVINO alone."""

import sys
from typing import Any, cast

# Importing openvino sends an event about it to its maker (openvino/tools/ovc/__init__.py, 2026.4.1); without this package it cannot.
cast("dict[str, Any]", sys.modules)["openvino_telemetry"] = None
