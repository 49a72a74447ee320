# Written with the packaging.
