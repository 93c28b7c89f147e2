// SPDX-License-Identifier: BSD-3-Clause
// Prints what Tessera reads from a token file, for prepare_text_test.py:
//   print_tokens FILE [VOCAB [TEXT]], TEXT to be encoded
#include <cstdlib>
#include <iomanip>
#include <iostream>

#include "tessera/base/error.hpp"
#include "tessera/data/token_file.hpp"

namespace {

void print(const char* part, const tessera::data::DatasetPtr& tokens,
           const tessera::data::Vocabulary& vocabulary) {
  if (!tokens) return;
  std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens->size()));
  tokens->read(0, tokens->size(), ids.data());
  std::cout << part << "_ids";
  for (const std::int32_t id : ids) std::cout << ' ' << id;
  std::cout << '\n' << part << "_text " << std::hex << std::setfill('0');
  for (const char c : vocabulary.decode(ids))
    std::cout << std::setw(2) << static_cast<int>(static_cast<unsigned char>(c));
  std::cout << std::dec << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 1;
  try {
    const auto file = tessera::data::open_token_file(argv[1], argc > 2 ? std::atol(argv[2]) : 0);
    std::cout << "vocab " << file.vocabulary.size() << '\n';
    print("train", file.train, file.vocabulary);
    print("validation", file.validation, file.vocabulary);
    if (argc > 3) {
      std::cout << "encoded";
      for (const std::int32_t id : file.vocabulary.encode(argv[3])) std::cout << ' ' << id;
      std::cout << '\n';
    }
  } catch (const tessera::UserError& error) {
    std::cerr << error.what() << '\n';
    return 2;
  }
  return 0;
}
