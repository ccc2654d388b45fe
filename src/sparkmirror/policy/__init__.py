# SPDX-License-Identifier: Apache-2.0
"""How remote topics are named and which topics take part."""
