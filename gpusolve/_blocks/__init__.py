"""The data-parallel blocks: reduce, scan, segments, partition."""
