/** Has the browser save a file that the page made. */
export function save(name: string, type: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  // Once the download has begun it has the bytes.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
