"""What is learnt: GLUE, SQuAD 2.0, the user's own files, the built-in miniatures; subsampling, tokens and metrics."""
