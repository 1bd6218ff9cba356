# docs/git.md: the first commands, in a clone of a repository of this machine.
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=$PWD/gitconfig
git config --global user.name Test
git config --global user.email test@example.org
git config --global init.defaultBranch main
git init -q --bare remote.git
git clone -q remote.git clone 2>/dev/null
URL=$PWD/remote.git
cd clone
printf '#!/bin/sh\nls >inventory\n' >update-inventory
chmod +x update-inventory
echo 1 >version
git add -A
git commit -q -m Start
git push -q origin HEAD

# SNIPPET

diff - <(git -C ../remote.git log --format=%s main) <<'LOG'
Run sh
Bump
Run update-inventory
Start
LOG
test "$(git -C ../remote.git show main:version)" = 2
