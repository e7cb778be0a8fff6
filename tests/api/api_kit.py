"""Bodies that the API's tests share."""

SERVER = {"region": "r1", "plan": "small", "image": "tiny", "networks": [{"network": "lan"}]}
