"""Frozen data that joins the layers, and the Protocols through which lower ones call higher ones. No I/O."""
