"""The runner beside one sandbox: its parent or its companion, its watchdog, its scribe.

Standard library only, and nothing of ours but this folder: agent and runner outlive each other, and a new version of
either must not break the other. All it needs is its state folder and, for a container, the engine.
"""
