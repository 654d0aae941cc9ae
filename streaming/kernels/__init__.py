"""numba loops of the stream: arrays in, arrays out, no checks and no errors."""
