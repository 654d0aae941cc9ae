"""Job queue: jobs as rows under leases, and the workers that take them."""
