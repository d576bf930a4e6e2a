"""The operator's command: composes Corral's services and runs them."""
