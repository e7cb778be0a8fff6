"""Runs on an appliance: takes an identity, pulls its config, applies and proves it, reports. Standard library and `wire` only."""
