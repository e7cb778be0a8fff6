"""The products: each answers what may be asked, what is, what to do, and how one step is done. They do not
know one another.
"""
