// Kubernetes' own end-to-end specs for scheduling, as one program: the packages that its test binary
// e2e.test starts, without those of other areas, which take ten minutes to build.
package main

import (
	"flag"
	"os"
	"testing"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"
	_ "k8s.io/kubernetes/test/e2e/scheduling"
)

// Ginkgo reports a failure here, and in its own reports with the reason.
type outcome struct{ failed bool }

func (it *outcome) Fail() { it.failed = true }

func main() {
	testing.Init()
	config.CopyFlags(config.Flags, flag.CommandLine)
	framework.RegisterCommonFlags(flag.CommandLine)
	framework.RegisterClusterFlags(flag.CommandLine)
	flag.Parse()
	framework.AfterReadingAllFlags(&framework.TestContext)
	gomega.RegisterFailHandler(framework.Fail)
	suite, reporter := framework.CreateGinkgoConfig()
	var result outcome
	if !ginkgo.RunSpecs(&result, "Kubernetes e2e suite", suite, reporter) || result.failed {
		os.Exit(1)
	}
}
