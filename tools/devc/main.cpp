#include "sluice/Driver/Driver.h"
#include <iostream>
int main(int argc, char **argv) { sluice::driver::CompileRequest r; r.spec = argv[1]; std::string o = argv[2]; if (o.substr(0,5)=="emit=") r.emit=o.substr(5); else r.output=o; r.targets={argc>3?argv[3]:"cpu"};
 auto out = sluice::driver::compile(r); std::cout << out.output; std::cerr << out.message << "\n"; return out.status; }
