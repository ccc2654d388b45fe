# SPDX-License-Identifier: Apache-2.0
"""The operating system: clock, cache directory, Java."""
