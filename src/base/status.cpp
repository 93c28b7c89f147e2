// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/base/status.hpp"

#include "tessera/base/error.hpp"

namespace tessera {

Status status_of(std::exception_ptr exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const UserError& error) {
    return {Status::Kind::user_error, error.what()};
  } catch (const std::exception& error) {
    return {Status::Kind::error, error.what()};
  } catch (...) {
    return {Status::Kind::error, "unknown exception"};
  }
}

void throw_unless_ok(const Status& status) {
  if (status.kind == Status::Kind::user_error) throw UserError(status.message);
  if (status.kind == Status::Kind::error) throw Error(status.message);
}

}  // namespace tessera
