// One download by Go's standard library, as its documentation says: client URL OUT AUTHORITY SHA512, the token on stdin.
package main

import (
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: client URL OUT AUTHORITY SHA512 < TOKEN")
		os.Exit(2)
	}
	if err := download(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func download(url, out, authority, wanted string) error {
	token, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if authority != "" {
		pem, err := os.ReadFile(authority)
		if err != nil {
			return err
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(pem)
		transport.TLSClientConfig = &tls.Config{RootCAs: pool}
	}
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	request.Header.Set("X-Auth-Token", strings.TrimSpace(string(token)))
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	file, err := os.Create(out)
	if err != nil {
		return err
	}
	digest := sha512.New()
	to := io.Writer(file)
	if wanted != "" {
		to = io.MultiWriter(file, digest)
	}
	if _, err := io.Copy(to, response.Body); err != nil {
		return err
	}
	if wanted != "" && hex.EncodeToString(digest.Sum(nil)) != wanted {
		return errors.New("the checksum differs")
	}
	return file.Close()
}
