"""The page: a study to look at, as one file to hand on, or live while it runs."""
