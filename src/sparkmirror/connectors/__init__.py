# SPDX-License-Identifier: Apache-2.0
"""MM2's connectors, and what they need."""
