# SPDX-License-Identifier: Apache-2.0
"""Pure plans for topics on the target, and the code that carries them out."""
