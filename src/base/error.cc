// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

namespace zaya {

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage: return 2;
    case ErrorKind::damaged: return 3;
    case ErrorKind::peer_lost: return 4;
    case ErrorKind::numerics: return 5;
    case ErrorKind::hardware: return 6;
  }
  return 6;
}

}  // namespace zaya
