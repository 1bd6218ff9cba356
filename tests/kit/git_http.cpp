#include "tests/kit/git_http.hpp"

#include <fstream>
#include <string_view>

namespace tenure::kit {
namespace {

constexpr std::string_view server = R"(
import base64, http.server, os, subprocess, sys
port, root, secret = int(sys.argv[1]), sys.argv[2], sys.argv[3]

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def body(self):
        if self.headers.get('Transfer-Encoding') == 'chunked':
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b''.join(parts)
        return self.rfile.read(int(self.headers.get('Content-Length', 0)))

    def answer(self):
        body = self.body()
        if secret and self.headers.get('Authorization') != 'Basic ' + secret:
            self.send_response(401)
            self.send_header('WWW-Authenticate', 'Basic realm="git"')
            self.send_header('Content-Length', '0')
            self.end_headers()
            return
        path, _, query = self.path.partition('?')
        environment = {**os.environ, 'GIT_PROJECT_ROOT': root, 'GIT_HTTP_EXPORT_ALL': '1',
                       'PATH_INFO': path, 'QUERY_STRING': query, 'REMOTE_ADDR': '127.0.0.1',
                       'REQUEST_METHOD': self.command, 'CONTENT_LENGTH': str(len(body)),
                       'CONTENT_TYPE': self.headers.get('Content-Type', ''),
                       'HTTP_CONTENT_ENCODING': self.headers.get('Content-Encoding', ''),
                       'HTTP_GIT_PROTOCOL': self.headers.get('Git-Protocol', '')}
        if secret:
            environment['REMOTE_USER'] = 'ann'
        done = subprocess.run(['git', 'http-backend'], input=body, env=environment,
                              stdout=subprocess.PIPE, check=False)
        head, _, content = done.stdout.partition(b'\r\n\r\n')
        fields = dict(line.split(': ', 1) for line in head.decode().split('\r\n') if line)
        self.send_response(int(fields.pop('Status', '200').split()[0]))
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header('Content-Length', str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = answer

http.server.ThreadingHTTPServer(('127.0.0.1', port), Handler).serve_forever()
)";

std::string base64(std::string_view text) {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < text.size(); i += 3) {
    unsigned bits = 0;
    for (std::size_t j = i; j < i + 3; ++j) {
      bits = (bits << 8U) | (j < text.size() ? static_cast<unsigned char>(text[j]) : 0U);
    }
    for (std::size_t j = 0; j < 4; ++j) {
      out += i + j <= text.size() ? digits[(bits >> (18U - (6U * j))) & 63U] : '=';
    }
  }
  return out;
}

}  // namespace

GitHttp::GitHttp(const std::filesystem::path& root, const std::string& user,
                 const std::string& password)
    : Server("git-http", free_port()) {
  const std::filesystem::path script = directory() / "server.py";
  std::ofstream{script} << server;
  set_program({.words = {"python3", script, std::to_string(port()), root,
                         user.empty() ? "" : base64(user + ":" + password)}},
              SIGKILL);
}

bool GitHttp::ready() const { return accepts_connections("127.0.0.1", port()); }

std::string GitHttp::url(const std::string& repository) const {
  return "http://127.0.0.1:" + std::to_string(port()) + "/" + repository;
}

}  // namespace tenure::kit
