# SPDX-License-Identifier: Apache-2.0
"""Running mirrors, workers and tasks, and their Java counterparts."""
