"""A tritonserver without a container: found on the system, or taken from the `nvidia-pytriton` wheel."""
