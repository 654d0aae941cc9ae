"""Dashboard: pages of HTML beside the API.

Pages are made by templates from the same stores as the API's answers; small pieces of them are
asked for again and again while they are looked at (htmx). There is no build step and no script of
others but htmx and uPlot, which lie in ``static`` with their licences.
"""
