"""Speaker labels: the voices of a recording or a stream told apart, and each word given to one of them."""
