# SPDX-License-Identifier: Apache-2.0
"""Figures for monitoring systems; the only package that knows one."""
