# SPDX-License-Identifier: Apache-2.0
"""Properties files: parsing, config providers, layers, and which files were read."""
