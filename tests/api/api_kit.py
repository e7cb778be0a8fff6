"""Bodies that the API's tests share."""

SERVER = {"region": "r1", "plan": "small", "image": "tiny", "networks": [{"network": "lan"}]}
PLAN = {"cores": 1, "memory_mib": 512, "disk_gib": 1}
