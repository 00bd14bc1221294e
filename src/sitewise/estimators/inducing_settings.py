"""The name by which `training` asks for inducing inputs that are chosen again after a coarse stage."""

REFRESHED = "refreshed"
