// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/io/run_folder.hpp"

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <vector>

#include "io/posix_file.hpp"
#include "io/run_lock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/io/checkpoint.hpp"

namespace tessera::io {
namespace {

namespace fs = std::filesystem;

void create_folder(const std::string& path) {
  std::error_code failed;
  fs::create_directories(path, failed);
  check_user(!failed && fs::is_directory(path), "run.dir ", path,
             ": can't make this folder: ", failed ? failed.message() : "it is a file");
}

/// Files that a killed save or replacement left; nobody else can be writing them.
void remove_unfinished(const std::string& path) {
  std::error_code missing;
  std::vector<fs::path> folders{path, path + "/checkpoints"};
  for (const auto& entry : fs::directory_iterator(path + "/checkpoints", missing)) {
    if (entry.is_directory(missing)) folders.push_back(entry.path());  // of an asynchronous group
  }
  for (const fs::path& folder : folders) {
    for (const auto& entry : fs::directory_iterator(folder, missing)) {
      if (entry.path().extension() == ".part") fs::remove(entry.path());
    }
  }
}

void remove_run(const std::string& path) {
  fs::remove_all(path + "/checkpoints");
  fs::remove(path + "/metrics.jsonl");
}

}  // namespace

bool holds_run(const std::string& path) {
  std::error_code missing;
  if (fs::file_size(path + "/metrics.jsonl", missing) > 0 && !missing) return true;
  return !find_checkpoints(path + "/checkpoints").empty();
}

RunFolder::RunFolder(const std::string& path, Use use, std::chrono::milliseconds pulse)
    : path_(path) {
  check_user(use != Use::fresh || !holds_run(path_), "run.dir ", path_,
             " holds a run already: go on with it by train.resume=auto, write over it by "
             "run.overwrite=true, or choose another run.dir");
  create_folder(path_);
  try {
    owner_ = take_lock(path_ + "/lock");
  } catch (const UserError&) {
    throw;
  } catch (const std::exception& error) {
    throw UserError(concat("run.dir: ", error.what()));
  }
  try {
    remove_unfinished(path_);
    if (use == Use::overwrite) remove_run(path_);
    create_folder(checkpoints());
  } catch (...) {
    release_lock(path_ + "/lock", owner_);
    throw;
  }
  pulse_ = std::jthread([this, pulse](const std::stop_token& stop) { show_life(stop, pulse); });
}

RunFolder::~RunFolder() {
  pulse_.request_stop();
  pulse_.join();
  try {
    release_lock(path_ + "/lock", owner_);
  } catch (const std::exception&) {
    // The lock goes stale by itself.
  }
}

void RunFolder::store_deck(const std::string& text) const {
  replace_file(path_ + "/deck.ini", text);
}

void RunFolder::check_lock() const {
  const std::string lock = path_ + "/lock";
  const std::string text = read_file(lock);
  if (text == owner_) return;
  throw Error(concat(lock, ": another job has taken over this folder (",
                     LockOwner::parse(text).describe(), ")"));
}

void RunFolder::show_life(const std::stop_token& stop, std::chrono::milliseconds pulse) const {
  std::mutex mutex;
  std::condition_variable_any sleep;
  std::unique_lock held(mutex);
  while (!sleep.wait_for(held, stop, pulse, [] { return false; }) && !stop.stop_requested()) {
    try {
      touch_lock(path_ + "/lock", owner_);
    } catch (const std::exception&) {
      // A file system that fails for a moment; check_lock says what lasts.
    }
  }
}

}  // namespace tessera::io
