"""Figures to publish: estimators, reports, responses from elsewhere, fingerprints."""
