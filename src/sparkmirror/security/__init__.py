# SPDX-License-Identifier: Apache-2.0
"""How a client proves who it is and knows whom it talks to: for every connection alike."""
