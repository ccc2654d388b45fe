# SPDX-License-Identifier: Apache-2.0
"""How offsets of a source's consumer groups become offsets on the target."""
