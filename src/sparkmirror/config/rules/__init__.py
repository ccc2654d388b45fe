# SPDX-License-Identifier: Apache-2.0
"""Rules that a configuration must satisfy."""
