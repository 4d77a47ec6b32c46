"""Figures and tables: queries to the tidy table. One module per kind; :mod:`palimpsest.figures.registry` knows them."""
