"""What is to leave a graph: erasures, horizons, repairs, retractions."""
