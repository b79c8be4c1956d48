// Several test files in one process, one after the other: each is a suite by its name, with the hooks that it declares for itself. What they
// import is read, and made quick, once for all of them. scripts/test-file.mjs starts this, and names the files.
import { describe } from 'node:test';
import { pathToFileURL } from 'node:url';

/** [what it is called, its path] of each. */
for (const [of, path] of JSON.parse(process.env['STATEFOLD_TEST_GROUP'])) {
  let declared;
  describe(of, () => (declared = import(pathToFileURL(path).href)));
  // One by one: what a file declares is its own. What one throws is told of by its suite.
  await declared.catch(() => undefined);
}
