"""Stands in for the build tool of that name; see build_meta.py."""
