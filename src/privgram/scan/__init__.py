"""The scan of a table: by threads here, by Dask and Spark where one machine is not enough.

No noise is drawn here, and no budget is spent.
"""
