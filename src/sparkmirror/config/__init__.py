# SPDX-License-Identifier: Apache-2.0
"""MM2 property files become typed settings here; strings stop at this package."""
