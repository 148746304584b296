"""For every test."""

from __future__ import annotations

import os

# OpenVINO sends a usage event whenever it is imported, unless this says that it runs in CI.
os.environ.setdefault("CI", "true")
