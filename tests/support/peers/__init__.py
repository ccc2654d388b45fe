# SPDX-License-Identifier: Apache-2.0
"""Fake and scripted counterparts of the code under test."""
