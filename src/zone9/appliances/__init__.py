"""The server's side of pull: who may ask, what is answered, what a status means. It knows no product."""
