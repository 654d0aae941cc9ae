"""Dashboard: HTML pages beside the API.

Templates render pages from the same stores as the API's answers; parts of them are polled while
they are looked at (htmx). There is no build step, and no foreign script but htmx and uPlot, which
lie in ``static`` with their licenses.
"""
