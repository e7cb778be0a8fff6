"""One file a version. SQL of a released version never changes."""
